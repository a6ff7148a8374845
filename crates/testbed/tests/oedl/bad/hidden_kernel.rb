Object.ancestors.find { |each| each.to_s == 'Kernel' }.system('date')
