"""Files that earlier versions wrote, and the programs that wrote them: old data opens, and replays."""
