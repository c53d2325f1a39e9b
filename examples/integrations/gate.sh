# Let a model through, or not, in any job that understands exit codes: sh gate.sh VERSION, in the
# folder of the tutorial's files (docs/embedded.md), with the meter in `mail`. In a job of your own,
# the version is the commit: it is answered once, however often the job runs.
# Exit code 0: it passes; 6: it does not; 3: the test set is spent.
meter submit -C mail --once --model "$1" --test "$1-test.csv" --validation "$1-validation.csv" \
    --fail-above 2 --summary summary.md --junit report.xml
