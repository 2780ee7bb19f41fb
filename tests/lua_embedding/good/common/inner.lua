local inner = [==[a;b;;c]]d]==]
