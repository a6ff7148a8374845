File.write('/tmp/x', 'y')
