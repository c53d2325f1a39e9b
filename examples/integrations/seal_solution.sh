# Seal the private rows of a competition's solution: sh seal_solution.sh, in the folder of the
# tutorial's files (docs/embedded.md). The solution is made of them here: its public rows are those
# that a leaderboard has told something of.
awk -F, 'NR == 1 { print "id,label,Usage" } FNR > 1 { print FILENAME $1 "," $4 "," (FILENAME == "fresh.csv" ? "Public" : "Private") }' \
    labelled.csv fresh.csv > solution.csv
meter init -C competition --spec meter.toml --name competition
meter seal solution.csv -C competition --from kaggle --usage Private --label label --id id --out hidden.sealed
meter testset add hidden.sealed -C competition
