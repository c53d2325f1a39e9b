# Submit a model, and report the answer where the team looks: sh report.sh, in the folder of the
# tutorial's files (docs/embedded.md), with the meter in `mail`. Add mlflow or wandb if you have it.
meter submit -C mail --test v1-test.csv --validation v1-validation.csv --model v1 \
    --report "${REPORT:-markdown=answer.md}"
cat answer.md
