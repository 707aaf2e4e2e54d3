"""Frozen pretrained encoders and static vectors: words in, a vector of each word out."""
