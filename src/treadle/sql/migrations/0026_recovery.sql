-- Workers look for lost ones when the next lease runs out: the function returns one more column.
drop function if exists treadle.clock_and_losses();
