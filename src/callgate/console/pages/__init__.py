"""The pages of the console, one module each: `routes(desk)` gives what a page answers to."""
