defGroup('A', 'a')
onEvent(:ALL_UP) do
  wait 5 until group('A').state("apps/app/status/@value") == 'DONE'
end
