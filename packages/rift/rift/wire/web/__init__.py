"""The pages that people look at: rendered here, good without JavaScript, nothing from another host."""
