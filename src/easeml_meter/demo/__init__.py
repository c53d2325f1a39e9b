"""A first look: a story of overfitting that runs in seconds, and the files of the tutorial."""
