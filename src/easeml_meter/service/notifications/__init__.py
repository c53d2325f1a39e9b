"""Notifications: labelers get e-mail, and whoever the setting `notify` names hears what happens.

`emails` says what labelers have to know. `delivery` turns new links of the audit chain into
messages, and sends both kinds.
"""
