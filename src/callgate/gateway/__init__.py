"""The relay: transports, upstreams and both protocol eras around the one gate."""
