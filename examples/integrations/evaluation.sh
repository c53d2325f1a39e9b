# Submit what an evaluation of a language model found, and gate by the answer:
#
#     sh evaluation.sh TOOL HIDDEN VISIBLE MODEL      # TOOL: inspect, lm-eval, promptfoo or scores
#
# HIDDEN and VISIBLE are its logs (docs/llm-evals.md). The meter is in the folder `quiz`; at a server
# the first line is a runner's, and the second a developer's.
set -eu
meter submit -C quiz --from "$1" --test "$2" --validation "$3" --model "$4" --once
meter status -C quiz --model "$4" --fail-above 1
