#!/bin/sh
# Try the integrations with the real tools: sh scripts/integrations.sh [TOOL...]
#
# Each script of tests/tools runs in an environment of its own, out/integrations/TOOL, since the
# tools are heavy and disagree about versions. A line "# needs: ..." says what is installed there;
# one "# apart: ..." what cannot be installed beside this package, and goes to the folder apart.
# One that fails does not keep the others from being tried; the end says how each went.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --one ]; then
    tool=$2 script=tests/tools/$2.py
    environment=out/integrations/$tool
    [ -x "$environment/bin/python" ] || .venv/bin/python -m venv "$environment"
    # shellcheck disable=SC2046  # several words
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -e . \
        $(sed -n 's/^# needs: //p' "$script")
    apart=$(sed -n 's/^# apart: //p' "$script")
    if [ -n "$apart" ]; then
        [ -x "$environment/apart/bin/python" ] || .venv/bin/python -m venv "$environment/apart"
        # shellcheck disable=SC2086  # several words
        "$environment/apart/bin/python" -m pip install --quiet --disable-pip-version-check $apart
    fi
    date +%s > "$environment/installed"
    exec "$environment/bin/python" -m "tests.tools.$tool"
fi

mkdir -p out/integrations
results=out/integrations/results
: > "$results"
failed=0
for script in tests/tools/*.py; do
    tool=$(basename "$script" .py)
    [ $# -eq 0 ] || case " $* " in *" $tool "*) ;; *) continue ;; esac
    echo "== $tool"
    began=$(date +%s)
    rm -f "out/integrations/$tool/installed"
    said=passed
    sh scripts/integrations.sh --one "$tool" || { said=FAILED; failed=1; }
    ended=$(date +%s)
    installed=$(cat "out/integrations/$tool/installed" 2> /dev/null || echo "$ended")
    versions=$(sed -n 's/^# \(needs\|apart\): //p' "$script")
    printf '%-13s %6s %5d s to install, %5d s to run   %s\n' "$tool" "$said" \
        "$((installed - began))" "$((ended - installed))" "$versions" >> "$results"
done
cat "$results"
exit "$failed"
