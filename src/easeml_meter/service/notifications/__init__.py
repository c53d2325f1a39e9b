"""Notifications: what happens at a meter, told to webhooks and by e-mail.

The audit chain is the outbox: an event is sent exactly if its link was committed. `events` turns
new links into deliveries, `emails` does so for open requests, and `delivery` sends them.
"""
