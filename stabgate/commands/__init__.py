"""The commands of `stabgate`: one module each, with `add(commands)`, which registers it."""
