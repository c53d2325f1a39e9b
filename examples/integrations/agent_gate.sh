#!/bin/sh
# A coding agent's loop: it changes the checkout, and a change stays only if `meter gate` keeps it.
#
#     AGENT='claude -p "make the parser better"' SCORE=../private/score.sh sh agent_gate.sh 20
#
# $SCORE prints the results of this checkout (CSV: id,score). It, the hidden cases, the results and
# the ledger are in $PRIVATE, where the agent cannot read: run the agent under another account.
set -eu
rounds=$1 private=${PRIVATE:-../private}
best=$(git rev-parse HEAD)
$SCORE > "$private/best.csv"
for round in $(seq "$rounds"); do
    sh -c "$AGENT"
    git add -A && git commit --quiet -m "try $round" || continue  # nothing was changed
    $SCORE > "$private/new.csv"
    code=0
    meter gate "$private/best.csv" "$private/new.csv" --ledger "$private/gate.jsonl" \
        --name "$(git rev-parse HEAD)" --old-name "$best" || code=$?
    case $code in
        0) best=$(git rev-parse HEAD) && mv "$private/new.csv" "$private/best.csv" ;;
        6) git reset --quiet --hard "$best" ;;
        *) git reset --quiet --hard "$best" && exit "$code" ;;  # 3: spent, so it is time to stop
    esac
done
