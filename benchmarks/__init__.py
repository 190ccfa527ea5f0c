"""How fast is sexton beside Kafka's own code and other clients, on the same bytes, in one run?"""
