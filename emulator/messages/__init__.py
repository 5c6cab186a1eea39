"""What separate programs of the project say to each other: messages, checked on both sides. No sockets here."""
