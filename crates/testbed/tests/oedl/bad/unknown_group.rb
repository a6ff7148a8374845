defGroup('Sender', 'a')
onEvent(:ALL_UP) { group('Sendr').startApplications }
