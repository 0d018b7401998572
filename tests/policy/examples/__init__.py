"""One module for each rule of the pack, of the same name: its passing and its failing examples."""
