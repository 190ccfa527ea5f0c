"""Many replicas on a network, disks and a clock that one seed decides; and small worlds in full."""
