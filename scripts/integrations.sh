#!/bin/sh
# Try the integrations with the real tools: sh scripts/integrations.sh [TOOL...]
#
# Each script of tests/tools runs in an environment of its own, out/integrations/TOOL, since the
# tools are heavy and disagree about versions. A line "# needs: ..." says what is installed there;
# one "# apart: ..." what cannot be installed beside this package, and goes to the folder apart.
set -eu
cd "$(dirname "$0")/.."
for script in tests/tools/*.py; do
    tool=$(basename "$script" .py)
    [ $# -eq 0 ] || case " $* " in *" $tool "*) ;; *) continue ;; esac
    environment=out/integrations/$tool
    [ -x "$environment/bin/python" ] || .venv/bin/python -m venv "$environment"
    echo "== $tool"
    # shellcheck disable=SC2046  # several words
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -e . \
        $(sed -n 's/^# needs: //p' "$script")
    apart=$(sed -n 's/^# apart: //p' "$script")
    if [ -n "$apart" ]; then
        [ -x "$environment/apart/bin/python" ] || .venv/bin/python -m venv "$environment/apart"
        # shellcheck disable=SC2086  # several words
        "$environment/apart/bin/python" -m pip install --quiet --disable-pip-version-check $apart
    fi
    "$environment/bin/python" -m "tests.tools.$tool"
done
