"""The section `llm`."""
