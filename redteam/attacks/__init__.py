"""What intruders try, one module for each place they come from."""
