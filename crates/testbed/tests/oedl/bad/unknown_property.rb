defProperty('rate', 1, '')
wait property.rat
