"""What a hidden test set can be asked: each module is one kind of question."""
