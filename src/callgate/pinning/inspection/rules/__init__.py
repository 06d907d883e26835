"""The rules: every module here is loaded. A new rule is a new function, in a module of its own or beside its kin."""
