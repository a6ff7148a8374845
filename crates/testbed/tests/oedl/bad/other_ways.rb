$stdout.class.popen('date')
