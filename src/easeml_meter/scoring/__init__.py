"""From predictions and labels to a mean loss in [0, 1]. Nothing here encrypts or decrypts."""
