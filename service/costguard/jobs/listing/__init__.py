"""Jobs and their output as the API, the pages and the commands show them."""
