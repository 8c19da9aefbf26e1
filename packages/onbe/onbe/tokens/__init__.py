"""What is shown at the door: assertions of agents, subject tokens of people, and the tokens that are issued."""
