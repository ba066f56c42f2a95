"""Log lines for the Prefect API, as its database takes them: without NUL and half surrogates."""

import logging

from prefect.logging.handlers import APILogHandler

from agentcompass.components.results.writing import clean_text


class StorableAPILogHandler(APILogHandler):
    def format(self, record: logging.LogRecord) -> str:
        text, _ = clean_text(super().format(record))
        return str(text)
