#!/bin/sh
# Time the ten lines of README from nothing: sh scripts/ten-lines.sh
#
# Builds the wheel, installs it with scikit-learn into a new environment, runs the Python of README
# in a new folder, and prints the seconds of each.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
since() { echo "$(($(date +%s) - $1)) s  $2"; }
began=$(date +%s)
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder" .
since "$began" "build the wheel"
then=$(date +%s)
"$python" -m venv "$folder/environment"
"$folder/environment/bin/python" -m pip install --quiet "$folder"/easeml_meter-*.whl scikit-learn pandas
since "$then" "install it, with scikit-learn and pandas"
then=$(date +%s)
awk '/^```python$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md > "$folder/lines.py"
(cd "$folder" && environment/bin/python lines.py)
since "$then" "the model is metered"
since "$began" "in all"
