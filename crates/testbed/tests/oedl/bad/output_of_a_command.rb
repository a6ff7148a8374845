defGroup('A', 'a').exec('date') { |event, text| info text }
