#!/usr/bin/env python3
"""Messages of an MQTT broker over DTN to another one: pip install paho-mqtt

    python3 mqtt.py in HOST:PORT TOPIC ENDPOINT        # of a broker into bundles: mqtt.py in localhost:1883 'sensors/#' ipn:2.80
    python3 mqtt.py out ENDPOINT HOST:PORT             # of bundles into a broker

A bundle is a topic, a zero octet, and the message. Each side lets go of it once the other has it (QoS 1).
"""

import sys

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

import dhow


def client(address: str, name: str) -> Client:
    """A client of a broker, which keeps what comes while this program is away."""
    made = Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False, manual_ack=True)
    host, _, port = address.rpartition(":")
    made.connect(host, int(port))
    return made


def bring_in(address: str, topic: str, endpoint: str) -> None:
    with dhow.connect() as node:
        def forward(broker: Client, _: object, message: MQTTMessage) -> None:
            node.send(endpoint, message.topic.encode() + b"\0" + message.payload)
            broker.ack(message.mid, message.qos)

        broker = client(address, "dhow-in")
        broker.on_message = forward
        broker.subscribe(topic, qos=1)
        print("subscribed", flush=True)
        broker.loop_forever()


def bring_out(endpoint: str, address: str) -> None:
    broker = client(address, "dhow-out")
    broker.loop_start()
    with dhow.connect() as node:
        for delivery in node.receive(endpoint):
            with delivery:
                topic, _, payload = delivery.read().partition(b"\0")
                message = broker.publish(topic.decode(), payload, qos=1)
                message.wait_for_publish(60)
                if not message.is_published():
                    raise TimeoutError("the broker did not acknowledge within 60 s")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["in", *words] if len(words) == 3:
            bring_in(*words)
        case ["out", *words] if len(words) == 2:
            bring_out(*words)
        case _:
            sys.exit(__doc__)
