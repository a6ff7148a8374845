defGroup('A', 'a')
onEvent(:ALL_UP) { puts ms('udp_in').count }
