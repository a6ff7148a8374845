x = `uname -a`
