def check_index(index, subscriptions, used, around):
    pass
