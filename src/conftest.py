"""What of the sources is left out when their examples are run."""

from importlib.util import find_spec

# spaCy is too large for the extra `dev`: where it is missing, its component cannot be imported
collect_ignore = [] if find_spec("spacy") else ["sapwood/integrations/spacy_pipe.py"]
