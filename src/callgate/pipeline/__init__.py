"""What every transport does with a message: the request context, the stages that see it, and the dispatcher."""
