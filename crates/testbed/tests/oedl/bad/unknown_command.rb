defProperty('x', 1, '')
launchRockets('now')
