raise RuntimeError("discover() imports modules called jobs only")
