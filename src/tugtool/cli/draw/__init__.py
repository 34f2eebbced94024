"""Pictures for people; the commands beside this package show them."""
