"""Trust: labels that travel with the data, where the values of a call come from, and the policy that reads both."""
