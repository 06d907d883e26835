"""The rules: every module here is loaded. A new rule is a function here and an entry in `data/rules.toml`."""
