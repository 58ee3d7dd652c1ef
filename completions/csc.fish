complete --keep-order --exclusive --command csc --arguments "(COMPLETE=fish csc -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
