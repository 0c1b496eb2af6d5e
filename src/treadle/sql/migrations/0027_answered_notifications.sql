-- Workers say which notification they have answered: the function has one more parameter.
drop function if exists treadle.next_due(varchar[], varchar[], boolean, boolean);
