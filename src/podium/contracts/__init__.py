"""The words: the five contracts as models, enums and error codes. Imports nothing of ours."""
