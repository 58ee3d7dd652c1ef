complete --keep-order --exclusive --command csi --arguments "(COMPLETE=fish csi -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
