"""What was found, shown to people and to programs; knows nothing about command lines."""
